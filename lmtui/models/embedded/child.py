"""The child process that holds the model: llama.cpp's own server on a loopback port, until its standard input ends.

It is run as its own file and imports nothing of lmtui.  The order (JSON, one line) comes on standard input, so that the
key is in no argument list; the answer (JSON, one line) goes to standard output.  However lmtui ends, the pipe closes, and
this process ends with it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any

FAILED = 1


def main() -> int:
    """Start the server that the first line asks for and stay until the input ends."""
    order = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_input, daemon=True).start()
    try:
        import xllamacpp  # noqa: PLC0415  (an extra: that it is missing is an answer)
    except ImportError as error:
        return _answer({"error": f"xllamacpp is not installed ({error})"})
    try:
        server = xllamacpp.Server(_parameters(xllamacpp.CommonParams(), order))
    except (RuntimeError, ValueError) as error:
        return _answer({"error": str(error)})
    _ = _answer({"url": server.listening_address})
    threading.Event().wait()
    return 0


def _parameters(parameters: Any, order: dict[str, Any]) -> Any:
    parameters.model.path = order["path"]
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.api_keys = [order["key"]]
    parameters.model_alias = {order["name"]}
    parameters.n_ctx = order["window_tokens"]
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = order["threads"]
    parameters.cpuparams_batch.n_threads = order["threads"]
    parameters.use_jinja = True
    parameters.endpoint_props = True
    parameters.slot_save_path = order["slot_folder"]
    parameters.endpoint_slots = True
    parameters.offline = True
    parameters.ui = False
    parameters.verbosity = 1
    return parameters


def _answer(value: dict[str, str]) -> int:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()
    return FAILED if "error" in value else 0


def _end_with_input() -> None:
    while sys.stdin.read(4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # the server's threads do not end by themselves
