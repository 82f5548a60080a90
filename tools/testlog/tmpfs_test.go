package main

import "testing"

// TestExecutable: only a tmpfs that lets programs be started is taken.
func TestExecutable(t *testing.T) {
	for _, tt := range []struct {
		name, mounts string
		want         bool
	}{
		{"usual", "proc /proc proc rw 0 0\ntmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0\n", true},
		{"of a container", "shm /dev/shm tmpfs rw,nosuid,nodev,noexec,relatime,size=65536k 0 0\n", false},
		{"another kind", "/dev/sda /dev/shm ext4 rw 0 0\n", false},
		{"covered", "tmpfs /dev/shm tmpfs rw 0 0\n/dev/sda /dev/shm ext4 rw 0 0\n", false},
		{"none", "proc /proc proc rw 0 0\n", false},
	} {
		if got := executable(tt.mounts); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
