#!/usr/bin/env bash
# Prints those lines of its input that belong to the share that TEST_URLTREE_SHARE names, as 1/4: the
# first of four; without it, all. See share.go.
awk -v share="${TEST_URLTREE_SHARE:-1/1}" '
	BEGIN {
		if (share !~ /^[1-9][0-9]*\/[1-9][0-9]*$/) {
			print "TEST_URLTREE_SHARE=" share " is no share such as 1/4" >"/dev/stderr"
			exit 2
		}
		split(share, part, "/")
	}
	NR % part[2] == part[1] % part[2]'
