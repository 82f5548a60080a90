// Package disk is the file system as the crawler meets it: a call that hangs is noticed, and a file
// is replaced whole.
package disk
