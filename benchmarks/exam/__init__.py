"""Ten small tasks on a real model, by lmtui and by a bare loop: `make exam URL=http://127.0.0.1:8080`."""
