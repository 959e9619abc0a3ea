"""Pure: snapshot + clock -> decision. One policy a file, each with a table test beside its name in tests/."""
