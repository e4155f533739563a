"""Commands of the list of models."""

from __future__ import annotations

from lmtui.tui.table.command import Command, Scope

MODELS: tuple[Command, ...] = (
    Command(
        "model.choose", Scope.WORKBENCH, "Model", "See the models of all servers; take one for this session, load or unload.",
        ("alt+e",), "model", ("model", "models"), "[name]", is_first=True, runs="call('model.choose')", values="models",
    ),
    Command(
        "calls.show", Scope.WORKBENCH, "Form of calls", "Say in which form the model calls tools and why, or set it by hand.",
        (), "", ("calls",), "[form]", runs="call('calls.show')", values="calls",
    ),
    Command("models.use", Scope.MODELS, "Use", "Use the marked model in this session.", ("enter",), "use"),
    Command("models.load", Scope.MODELS, "Load", "Load the marked model, with a window of your own or its.", ("l",), "load"),
    Command(
        "models.unload", Scope.MODELS, "Unload", "Unload the marked model, or give up its loading or exam.", ("u",), "unload"
    ),
    Command(
        "models.exam", Scope.MODELS, "Examine", "Measure in a minute how the marked model calls tools best, and its speed.",
        ("x",), "examine",
    ),
    Command("models.again", Scope.MODELS, "Look again", "Look for servers again.", ("r",), "look again"),
    Command("models.filter", Scope.MODELS, "Find", "Narrow the list down by a few characters of a name.", ("slash",), "find"),
    Command("models.up", Scope.MODELS, "Model before", "Mark the model before.", ("up", "k"), runs="models_move(-1)"),
    Command("models.down", Scope.MODELS, "Next model", "Mark the next model.", ("down", "j"), runs="models_move(1)"),
    Command("models.page_up", Scope.MODELS, "Page up", "Go ten lines up.", ("pageup",), runs="models_move(-10)"),
    Command("models.page_down", Scope.MODELS, "Page down", "Go ten lines down.", ("pagedown",), runs="models_move(10)"),
    Command("models.first", Scope.MODELS, "First", "Go to the first model.", ("home",), runs="models_move(-1000000)"),
    Command("models.last", Scope.MODELS, "Last", "Go to the last model.", ("end",), runs="models_move(1000000)"),
)  # fmt: skip
