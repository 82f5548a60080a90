// Package tables has no code but tests: what programs that analyse tables read in the exports of a
// tree.
package tables
