#!/usr/bin/env python3
"""An independent verifier: reads a log as C2SP tlog-tiles has it and checks the checkpoint's signature, the root from all
entries, every entry's inclusion in the tiles' tree, and consistency with every smaller size it picks. Written from the
specifications (RFC 6962, RFC 8032, C2SP signed-note, tlog-checkpoint, tlog-tiles), with Python's standard library only, so that
it shares no line with the server.

verify.py URL VKEY"""
import base64, hashlib, json, sys, urllib.request

# Ed25519 verification, RFC 8032 section 5.1.7.
P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
I = pow(2, (P - 1) // 4, P)


def recover_x(y, sign):
    x2 = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(x2, (P + 3) // 8, P)
    if (x * x - x2) % P:
        x = x * I % P
    assert (x * x - x2) % P == 0 and y < P, "not a point"
    return P - x if x & 1 != sign else x


def point(b):
    n = int.from_bytes(b, "little")
    y = n & (1 << 255) - 1
    x = recover_x(y, n >> 255)
    return (x, y, 1, x * y % P)


def add(p, q):
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % P, (p[1] + p[0]) * (q[1] + q[0]) % P
    c, d = 2 * p[3] * q[3] * D % P, 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def times(n, p):
    q = (0, 1, 1, 0)
    while n:
        if n & 1:
            q = add(q, p)
        p, n = add(p, p), n >> 1
    return q


def good_signature(key, message, sig):
    base_y = 4 * pow(5, P - 2, P) % P
    base = point(base_y.to_bytes(32, "little"))
    s = int.from_bytes(sig[32:], "little")
    k = int.from_bytes(hashlib.sha512(sig[:32] + key + message).digest(), "little") % L
    left, right = times(s, base), add(point(sig[:32]), times(k, point(key)))
    return s < L and (left[0] * right[2] - right[0] * left[2]) % P == 0 and (left[1] * right[2] - right[1] * left[2]) % P == 0


def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def leaf(entry):
    return sha(b"\0", entry)


def node(a, b):
    return sha(b"\1", a, b)


def tree(hashes):
    """The Merkle tree hash of a list of leaf hashes, by its definition."""
    if not hashes:
        return sha()
    if len(hashes) == 1:
        return hashes[0]
    k = 1 << (len(hashes) - 1).bit_length() - 1
    return node(tree(hashes[:k]), tree(hashes[k:]))


def root_of_inclusion(index, size, h, proof):
    """The root that an audit path leads to."""
    if size == 1:
        assert not proof, "proof too long"
        return h
    k = 1 << (size - 1).bit_length() - 1
    if index < k:
        return node(root_of_inclusion(index, k, h, proof[:-1]), proof[-1])
    return node(proof[-1], root_of_inclusion(index - k, size - k, h, proof[:-1]))


def roots_of_consistency(old, size, proof, old_root, whole=True):
    """The roots of both trees that a consistency proof leads to."""
    if old == size:
        if whole:
            assert not proof, "proof too long"
            return old_root, old_root
        return proof[0], proof[0]
    k = 1 << (size - 1).bit_length() - 1
    if old <= k:
        a, b = roots_of_consistency(old, k, proof[:-1], old_root, whole)
        return a, node(b, proof[-1])
    a, b = roots_of_consistency(old - k, size - k, proof[:-1], old_root, False)
    return node(proof[-1], a), node(proof[-1], b)


def path(n):
    groups = ["%03d" % (n % 1000)]
    while n >= 1000:
        n //= 1000
        groups.insert(0, "x%03d" % (n % 1000))
    return "/".join(groups)


def main(url, vkey):
    url = url.rstrip("/")

    def get(what):
        with urllib.request.urlopen(url + "/" + what, timeout=30) as r:
            return r.read()

    name, number, key = vkey.split("+", 2)
    key = base64.b64decode(key)
    assert sha(name.encode() + b"\n" + key)[:4].hex() == number and key[0] == 1, "vkey"

    def opened(note):
        text, _, lines = note.rpartition(b"\n\n")
        text += b"\n"
        for line in lines.decode().splitlines():
            dash, who, sig = line.split(" ")
            sig = base64.b64decode(sig)
            if dash == "\u2014" and who == name and sig[:4].hex() == number:
                assert good_signature(key[1:], text, sig[4:]), "signature"
                break
        else:
            raise AssertionError("not signed by " + name)
        origin, size, root = text.decode().splitlines()[:3]
        assert origin == name, "origin"
        return int(size), base64.b64decode(root)

    size, root = opened(get("checkpoint"))
    entries, hashes = [], []
    for n in range(-(-size // 256)):
        width = min(256, size - 256 * n)
        part = "" if width == 256 else ".p/%d" % width
        bundle = get("tile/entries/" + path(n) + part)
        at = 0
        for _ in range(width):
            length = int.from_bytes(bundle[at:at + 2], "big")
            entries.append(bundle[at + 2:at + 2 + length])
            at += 2 + length
        assert at == len(bundle), "bundle %d" % n
        mine = [leaf(e) for e in entries[256 * n:]]
        assert get("tile/0/" + path(n) + part) == b"".join(mine), "tile 0/%d" % n
        hashes += mine
    assert tree(hashes) == root, "root"
    picked = sorted({i * (size - 1) // 20 for i in range(21)} | {0, size - 1}) if size else []
    for index in picked:
        a = json.loads(get("proof/inclusion?index=%d&size=%d" % (index, size)))
        proof = [base64.b64decode(h) for h in a["hashes"]]
        assert root_of_inclusion(index, size, hashes[index], proof) == root, "inclusion of %d" % index
        text, _, note = get("proof/inclusion?index=%d" % index).partition(b"\n\n")
        lines = text.decode().splitlines()
        now, now_root = opened(note)
        assert lines[:2] == ["c2sp.org/tlog-proof@v1", "index %d" % index], "tlog-proof"
        assert root_of_inclusion(index, now, hashes[index], [base64.b64decode(h) for h in lines[2:]]) == now_root, "tlog-proof of %d" % index
        old = index + 1
        a = json.loads(get("proof/consistency?from=%d&to=%d" % (old, size)))
        proof = [base64.b64decode(h) for h in a["hashes"]]
        assert roots_of_consistency(old, size, proof, tree(hashes[:old])) == (tree(hashes[:old]), root), "consistency of %d" % old
    print("%d entries: signature, root, %d inclusions and consistencies verified" % (size, len(picked)))


if __name__ == "__main__":
    main(*sys.argv[1:3])
