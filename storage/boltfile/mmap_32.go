//go:build !(amd64 || arm64 || ppc64le || riscv64 || s390x || loong64)

package boltfile

const mmapSize = 512 << 20
