#!/bin/sh
# Measures what docs/main-network.md projects from, and fills in its tables. It needs a processor
# with AVX-512 IFMA, the real blocks in ../shared/data/blocks, 2 GB in TMPDIR, and a machine that does
# nothing else for ten minutes. `make build` comes before it.
set -eu
cd "$(dirname "$0")/../.."
# The command lines in the results have no path.
PATH="$PWD/target/release:$PATH"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

race() {
	name=$1
	shift
	blockmill-bench race --network regtest --out "$work/out" --runs 3 "$@" >"$work/table"
	mv "$work/out/race.json" "docs/measured/$name.json"
}

# Reading and decoding, of a chain with all kinds of scripts.
bytes() (
	export BLOCKMILL_BACKEND="${2:-$1}"
	race "$1-bytes" --blocks "$work/mixed"
)

# Scripts of real blocks.
scripts() {
	BLOCKMILL_BACKEND="$1" blockmill-bench signatures --json "$1.json" >"$work/table"
	mv "$1.json" "docs/measured/$1-scripts.json"
}

blockmill generate -q --out "$work/mixed" --blocks 300 --profile mixed --inputs 100000 --seed 1
blockmill generate -q --out "$work/utxo" --blocks 400 --profile utxo --inputs 3000000 --coins 2000000 --seed 1
# Coins that outgrow the cache, so that the store has its work.
race coins --blocks "$work/utxo" --dbcache 64
bytes avx512
bytes avx2
bytes neither portable
scripts avx512
scripts avx2
scripts portable
export BLOCKMILL_WRITE_FIGURES=1
cargo test --release -p blockmill-harness --test projection
# The hours are among the figures that stand on several pages.
cargo test --release -p blockmill-harness --test figures
