# Reads the output of `cargo test -- --show-output`, and lists what that run left out: ignored
# tests, and tests that printed `skipped: REASON` or `short: WHAT`. Tests that run once with each
# store count once.

function note(kind, test, text) {
    group = binary SUBSEP kind SUBSEP text
    if ((group, test) in noted) return
    noted[group, test]
    tests[group] = tests[group] ? tests[group] ", " test : test
    if (!((binary, kind, test) in counted)) total[kind]++
    counted[binary, kind, test]
}

/^ +Running / {
    binary = $NF
    gsub(/^\(.*\/|-[0-9a-f]+\)$/, "", binary)
}
/^ +Doc-tests / { binary = "examples in the documentation of " $2 }

/^test .* \.\.\. ignored/ {
    test = $0
    sub(/^test /, "", test)
    sub(/ \.\.\. ignored.*$/, "", test)
    reason = $0
    sub(/^.* \.\.\. ignored,? ?/, "", reason)
    note("ignored", test, reason == "" ? "no reason given" : reason)
}

/^successes:$/ { inside = 1 }
/^(failures|test result):/ { inside = 0 }
inside && /^---- .* stdout ----$/ {
    printing = $0
    sub(/^---- /, "", printing)
    sub(/ stdout ----$/, "", printing)
    split("", seen)
}
# A test may print a note once for each of several rounds.
inside && /^(skipped|short): / && !($0 in seen) {
    seen[$0]
    kind = $1
    sub(/:$/, "", kind)
    text = $0
    sub(/^[a-z]+: /, "", text)
    note(kind, printing, text)
}

/^error: test failed/ { failed = 1 }

END {
    if (failed) print "a test failed: the tests of later crates did not run"
    groups = 0
    for (group in tests) groups++
    if (groups == 0) {
        print "no test was left out or ran short"
        exit
    }
    print "left out or run short (CONTRIBUTING.md says more):"
    for (group in tests) {
        split(group, part, SUBSEP)
        several = split(tests[group], names, ", ") - 3
        list = several > 0 ? names[1] ", " names[2] " and " several + 1 " more" : tests[group]
        print "  " part[1] ": " part[2] ": " part[3] " (" list ")" | "sort"
    }
    close("sort")
    printf "tests: %d ignored (`cargo test --release -- --ignored` runs them), %d skipped, %d short\n", \
        total["ignored"], total["skipped"], total["short"]
}
