const wait = setInterval(() => {
  const area = document.querySelector(".xterm-helper-textarea");
  if (area && document.body.classList.contains("-first-byte")) { clearInterval(wait); area.blur(); area.focus(); }
}, 50);
