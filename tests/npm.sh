# Sourced by tests that need packages from npm; their skip() and fail() say why they end.

# npm_need MAJOR.MINOR: whether node is there and new enough.
npm_need() {
    command -v node >/dev/null && command -v npm >/dev/null || skip 'node and npm are not installed'
    node -e 'const [a, b] = process.versions.node.split(".").map(Number), [x, y] = process.argv[1].split(".").map(Number);
        process.exit(a > x || (a == x && b >= y) ? 0 : 1)' "$1" || skip "node is older than $1"
}

# npm_install: what package-lock.json in the current directory names; it stays until that file changes.
npm_install() {
    local status
    grep -q '"resolved"' package-lock.json &&
        fail 'package-lock.json names a registry: write it with --omit-lockfile-registry-resolved'
    cmp -s package-lock.json installed.json && return
    rm -rf node_modules installed.json
    timeout 100 npm ci --ignore-scripts --no-audit --no-fund --fetch-retries=1 --fetch-retry-mintimeout=1000 >npm.log 2>&1
    status=$?
    if ((status == 124)) || grep -qE 'E(NOTFOUND|AI_AGAIN|CONNREFUSED|CONNRESET|TIMEDOUT|NETUNREACH|HOSTUNREACH)|network|ENOTCACHED' npm.log; then
        ((status == 0)) || skip "npm cannot reach its registry: $(grep -m 1 -E 'npm (error|ERR!)' npm.log)"
    fi
    ((status == 0)) || fail "npm ci: $(grep -m 3 -E 'npm (error|ERR!)' npm.log)"
    cp package-lock.json installed.json
}
