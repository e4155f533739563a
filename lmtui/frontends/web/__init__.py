"""The app in a browser: a page, a door with a key in front of it, and one app process for each tab."""
