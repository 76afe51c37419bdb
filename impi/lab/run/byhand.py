"""A cell as a script of plain docker and ssh commands, to read and run by hand: ``commands.sh``.

Commands of the lab appear with their arguments and variables; only addresses, folders and the
authentication key, which belong to one lab, become variables of the script. The script judges
nothing: the ranks' gate is open, and so is the network, which needs no relay. The exit status is
that of the first command that failed.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from impi.base.variables import RELAY
from impi.lab.nodes.container_node import SOURCES, SSH_PORT, UID
from impi.lab.nodes.interface import Access
from impi.lab.run.cell_commands import SERVER, Started

_CHECKOUT: Final = Path(__file__).absolute().parents[3]
# the mark of a loopback lab's processes, to which those of the script do not belong
_MARK: Final = "IMPILAB_LAB"
_NONCE: Final = {"nonce": "by hand"}


def script(
    title: str,
    access: Access,
    started: Sequence[Started],
    *,
    folders: Mapping[str, str],
    plan: str,
    hostport: str,
) -> str:
    """Return the script's text.

    Args:
        title: what it is, for its first line.
        access: the lab that the cell ran in.
        started: the server, then the clients.
        folders: by node, the cell's folder on it.
        plan: the cell's ``cell.json``.
        hostport: what the server printed; empty where it printed nothing.
    """

    words = _Words(access, hostport)
    lines = [
        *_head(title),
        *(_DOCKER if access.user else _LOCAL),
        _START,
        "",
        "# what the ranks read",
    ]
    lines += [
        f"cell() {{ cat <<'END'\n{plan}\nEND\n}}",
        f"nonce() {{ echo {shlex.quote(json.dumps(_NONCE))}; }}",
    ]

    lines.append(_PREPARE)
    if access.user:
        # One path on all nodes.
        lines += [
            f'prepare "$W/tree"{shlex.quote(folder)}'
            for folder in dict.fromkeys(folders.values())
        ]
        lines += _docker(access)
    else:
        lines += [f"prepare {words.quoted(folder)}" for folder in folders.values()]
        lines += ["", "# a folder and an address each"]
        lines += [
            f'mkdir -p "$W/{name}"; ip_{name}={node.address}'
            for name, node in access.nodes.items()
        ]

    server = next((each for each in started if each.who == SERVER), None)
    if server is None:
        return "\n".join([*lines, "# it did not come to a start"]) + "\n"

    if "-server" not in server.argv:
        return (
            "\n".join(
                [*lines, "", "# server and clients", *_run(words, server), "", "finish"]
            )
            + "\n"
        )

    lines += [
        "",
        "# the server prints where it listens",
        *_run(words, server),
        "wait_for_server",
        "",
    ]

    lines.append("# the clients")
    for each in started:
        if each.who != SERVER:
            lines += _run(words, each)

    lines += ["", "finish"]

    return "\n".join(lines) + "\n"


class _Words:
    """Quotes words for the shell; what belongs to the lab alone becomes a variable."""

    def __init__(self, access: Access, hostport: str) -> None:
        found = {"(key)": "KEY"}
        if hostport:
            found[hostport] = "SERVER"

        found.update(
            {node.address: f"ip_{name}" for name, node in access.nodes.items()}
        )
        if not access.user:
            found[str(Path(access.nodes["server"].home).parent)] = "W"

        found[str(_CHECKOUT)] = "IMPI"
        if access.user:
            del found[str(_CHECKOUT)]  # nodes have their own values

        # The longest first: one address may be the beginning of another.
        self._variables = sorted(found.items(), key=lambda item: -len(item[0]))

    def quoted(self, word: str) -> str:
        for text, variable in self._variables:
            if text in word and (word == text or not text[0].isdigit()):
                before, _, after = word.partition(text)
                first, last = (
                    shlex.quote(before) if before else "",
                    self.quoted(after) if after else "",
                )
                return f'{first}"${{{variable}}}"{last}'

        return shlex.quote(word)


def _run(words: _Words, each: Started) -> Iterator[str]:
    env = {
        name: value
        for name, value in sorted(each.env.items())
        if name not in (_MARK, RELAY)
    }
    variables = " ".join(f"{name}={words.quoted(value)}" for name, value in env.items())
    name = str(each.who).replace(" ", "")
    yield f"start {name} {each.node} env {variables} \\"
    yield f"    {' '.join(words.quoted(word) for word in each.argv)}"


def _head(title: str) -> list[str]:
    return [
        "#!/bin/sh",
        f"# {title}: the same by hand. IMPI=CHECKOUT tries another source; KEEP=1 leaves everything for a look.",
        "set -eu",
        f"IMPI=${{IMPI:-{shlex.quote(str(_CHECKOUT))}}}",
        "KEY=20001122200011222",
        "W=$(mktemp -d)",
        "names=; pids=",
    ]


_START: Final = """\
start() { # NAME NODE COMMAND...: in the background; its output goes to $W/NAME.stdout and .stderr
    name=$1; shift
    : > "$W/$name.stdout"
    on "$@" < /dev/null > "$W/$name.stdout" 2> "$W/$name.stderr" &
    case $name in
        server) names="$names $name"; pids="$pids $!";;
        *) names=" $name$names"; pids="$! $pids";;  # the server waits for all clients: theirs are shown first
    esac
}
wait_for_server() {
    for _ in $(seq 200); do
        SERVER=$(head -n 1 "$W/server.stdout")
        if [ -n "$SERVER" ]; then return; fi
        sleep 0.05
    done
    cat "$W/server.stderr" >&2; echo "the server printed nothing" >&2; exit 1
}
finish() { # wait for all of them, show what they said, and end as the first that failed
    result=0
    for pid in $pids; do
        code=0; wait "$pid" || code=$?
        name=${names# }; name=${name%% *}; names=${names# "$name"}
        echo "$name: exit $code"; sed "s/^/    /" "$W/$name.stdout" "$W/$name.stderr"
        if [ "$result" -eq 0 ]; then result=$code; fi
    done
    exit "$result"
}"""

_PREPARE: Final = """\
prepare() { # FOLDER: the programs beside it, in it the cell's plan and an open gate
    mkdir -p "$1" "${1%/*}/programs"
    cp "$IMPI"/impi/lab/programs/*.py "${1%/*}/programs"
    cell > "$1/cell.json"; nonce > "${1%/*}/node.json"; touch "$1/gate"
}"""

_ON_DOCKER: Final = """\
on() { # NODE COMMAND...: run it there
    node=$1; shift
    line=
    for word do line="$line '$(printf %s "$word" | sed "s/'/'\\\\\\\\''/g")'"; done
    ssh -F "$W/ssh_config" "$node" "$line"
}
end() {
    if [ -n "${KEEP:-}" ]; then
        echo "kept: ssh -F $W/ssh_config NODE; remove it: docker rm -f$nodes; docker network rm $net; rm -r $W"
    else
        docker rm -f $nodes > /dev/null 2>&1 || true
        docker network rm "$net" > /dev/null 2>&1 || true
        rm -r "$W"
    fi
}"""

_ON_LOCAL: Final = """\
on() { # NODE COMMAND...: run it there, instead of this shell
    cd "$W/$1"; shift
    exec "$@"
}
end() {
    kill $pids 2> /dev/null || true
    [ -z "$pids" ] || wait $pids 2> /dev/null || true  # what still runs still writes
    if [ -n "${KEEP:-}" ]; then echo "kept: $W"; else rm -r "$W"; fi
}"""

_KEYS: Final = """\
# keys: one for us and the nodes, one that all nodes have for themselves
ssh-keygen -q -t ed25519 -N '' -f "$W/id_ed25519"
ssh-keygen -q -t ed25519 -N '' -f "$W/host_key"
mkdir -p "$W/tree/home/{user}/.ssh" "$W/tree{sources}"
cp "$W/id_ed25519" "$W/host_key" "$W/tree/home/{user}/.ssh"
cp "$W/id_ed25519.pub" "$W/tree/home/{user}/.ssh/authorized_keys"
echo "lab $(cut -d ' ' -f 1,2 "$W/host_key.pub")" | tee "$W/known_hosts" > "$W/tree/home/{user}/.ssh/known_hosts"
options="  User {user}
  HostKeyAlias lab
  BatchMode yes
  ConnectionAttempts 30"
printf 'Host *\\n  Port {port}\\n%s\\n' "$options" > "$W/tree/home/{user}/.ssh/config"
chmod -R go= "$W/tree/home/{user}/.ssh"
(cd "$IMPI" && tar --exclude __pycache__ -cf - impi images/*/*.toml) | tar -C "$W/tree{sources}" -xf -
"""

_NODE: Final = """\
node() {{ # NAME IMAGE: a container that runs sshd for the user {user}
    docker create -q --name "$net-$1" --hostname "$1" --network "$net" --network-alias "$1" --init --user {user} \\
        --cap-drop ALL --security-opt no-new-privileges --shm-size 256m -p 127.0.0.1::{port} "$2" > /dev/null
    nodes="$nodes $net-$1"
    tar -C "$W/tree" --mode u+rwX --owner={uid} --group={uid} -cf - home opt | docker cp -q - "$net-$1:/" > /dev/null
    docker start "$net-$1" > /dev/null
    port=$(docker port "$net-$1" {port}/tcp | head -n 1)
    printf 'Host %s\\n  HostName 127.0.0.1\\n  Port %s\\n  IdentityFile %s\\n  UserKnownHostsFile %s\\n%s\\n' \\
        "$1" "${{port##*:}}" "$W/id_ed25519" "$W/known_hosts" "$options" >> "$W/ssh_config"
    ip=$(docker inspect -f '{{{{range .NetworkSettings.Networks}}}}{{{{.IPAddress}}}}{{{{end}}}}' "$net-$1")
}}"""


_TRAPS: Final = ("trap end EXIT", "trap 'exit 130' INT TERM HUP")
_DOCKER: Final = ("net=impilab-by-hand-$$", "nodes=", _ON_DOCKER, *_TRAPS)
_LOCAL: Final = (_ON_LOCAL, *_TRAPS)


def _docker(access: Access) -> list[str]:
    names = {"user": access.user, "port": SSH_PORT, "uid": UID, "sources": SOURCES}
    lines = ["", _KEYS.format(**names).rstrip(), "", "# the network and its nodes"]

    lines += ['docker network create "$net" > /dev/null', _NODE.format(**names)]
    for name in access.nodes:
        vendor = (
            "pure"
            if name == "server"
            else access.vendors[int(name[1 : name.index("n")])]
        )
        lines.append(f"node {name} {access.images[vendor]}; ip_{name}=$ip")

    return lines
