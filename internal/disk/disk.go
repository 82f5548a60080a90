// Package disk is the file system as the crawler meets it: what is called below the root of a tree
// ([FS]), a call that hangs is noticed ([Watch]), the room that is left is watched ([Space]), and a
// file is replaced whole ([File]).
package disk
