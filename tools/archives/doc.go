// Package archives has tests alone: programs of others read the archives that the crawler writes.
package archives
