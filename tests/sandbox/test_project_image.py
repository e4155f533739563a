from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lmtui.core.errors import UsageError
from lmtui.sandbox.images import DEFAULT_IMAGE, ImageSource, connect, find_socket, find_source, image_name
from tests.sandbox.conftest import OpenSandbox

_DEVCONTAINER = ".devcontainer/devcontainer.json"


def test_a_dockerfile_describes_an_image() -> None:
    assert find_source({"Dockerfile": "FROM x"}) == ImageSource("Dockerfile", dockerfile="Dockerfile")
    assert find_source({}) is None


def test_a_devcontainer_comes_first_with_its_comments_and_trailing_commas() -> None:
    text = """{
        // the image "of" everybody
        "build": {"dockerfile": "Dockerfile", "context": "..", "args": {"V": 3,}, "target": "dev"}, /* more */
        "features": {"ghcr.io/x//y": {}},
    }"""
    found = find_source({_DEVCONTAINER: text, "Dockerfile": "FROM other"})
    assert found == ImageSource(
        _DEVCONTAINER, dockerfile=".devcontainer/Dockerfile", target="dev", arguments=(("V", "3"),), ignored=("features",)
    )
    assert find_source({".devcontainer.json": '{"image": "a.example/b:1"}'}) == ImageSource(
        ".devcontainer.json", base="a.example/b:1"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not valid JSON"),
        ("[]", "not an object"),
        ("{}", "names neither"),
        ('{"dockerComposeFile": "x.yml"}', "Docker Compose"),
        ('{"build": {"dockerfile": "../../Dockerfile"}}', "outside the project"),
        ('{"build": {"dockerfile": "D", "context": "/etc"}}', "outside the project"),
        ('{"image": "x\\nRUN id"}', "names neither"),
    ],
)
def test_a_devcontainer_that_cannot_be_built_is_an_error_with_a_way_out(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        find_source({_DEVCONTAINER: text})
    assert "image = NAME" in caught.value.hint


@pytest.fixture
def project(workspace: Path) -> Iterator[Path]:
    (workspace / "tool.sh").write_text("#!/bin/sh\necho from the image\n")
    (workspace / "tool.sh").chmod(0o755)
    (workspace / "Dockerfile").write_text(
        f"FROM {DEFAULT_IMAGE}\nCOPY tool.sh /opt/tool/bin/frobnicate\nENV PATH=/opt/tool/bin:$PATH COLOUR=grey\nUSER 1000\n"
    )
    yield workspace
    engine = connect(find_socket(), 60)
    for name in (image_name(workspace), f"{image_name(workspace)}-base"):
        if engine.images.list(name):
            engine.images.remove(name, force=True)
    engine.close()


def build(workspace: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lmtui", "sandbox", "image", "--project", "--workspace", str(workspace), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ, stdin=subprocess.DEVNULL)


@pytest.mark.docker
async def test_a_project_gets_the_image_that_the_user_built_from_its_dockerfile(
    project: Path, open_sandbox: OpenSandbox
) -> None:
    before = await open_sandbox("docker")
    assert (await before.run_command("frobnicate")).exit_code == 127
    assert any("lmtui sandbox image --project" in fact for fact in (await before.status()).facts)
    refused = build(project)
    assert (refused.returncode, refused.stdout) == (3, "")
    assert "COPY tool.sh" in refused.stderr
    built = build(project, "--yes", "--json")
    assert built.returncode == 0, built.stderr
    assert json.loads(built.stdout) == {"image": image_name(project)}
    await before.close()
    after = await open_sandbox("docker")
    assert (await after.run_command("frobnicate && cat /workspace/README.md")).output == "from the image\nhello\n"
    assert (await after.run_command("echo $COLOUR $HOME")).output == "grey /tmp/home\n"
    assert "changed" not in (await after.status()).reason
    await after.close()
    (project / "Dockerfile").write_text("FROM scratch\n")
    changed = await open_sandbox("docker")
    assert (await changed.run_command("frobnicate")).output == "from the image\n"
    assert "build it again: lmtui sandbox image --project" in (await changed.status()).warnings[0]


@pytest.mark.docker
async def test_an_image_of_the_project_neither_guards_the_workspace_nor_gets_its_secrets(
    project: Path, open_sandbox: OpenSandbox
) -> None:
    (project / "python.sh").write_text(
        '#!/bin/sh\ntest -w .git/hooks && echo evil > .git/hooks/post-checkout\nexec /usr/bin/python3.real "$@"\n'
    )
    (project / "Dockerfile").write_text(
        f"FROM {DEFAULT_IMAGE}\nUSER root\nCOPY . /app\nRUN cp /usr/bin/python3.11 /usr/bin/python3.real "
        "&& rm /usr/bin/python3 && install -m 755 /app/python.sh /usr/bin/python3\n"
    )
    (project / ".env").write_text("TOKEN=heron\n")
    subprocess.run(["git", "init", "-q", project], check=True)
    built = build(project, "--yes")
    assert built.returncode == 0, built.stderr
    sandbox = await open_sandbox("docker")
    assert "heron" not in (await sandbox.run_command("cat /app/.env; ls /app")).output
    assert (await sandbox.run_git(["status"], writes=True)).exit_code == 0
    assert not (project / ".git/hooks/post-checkout").exists()
