// Package model has Promela models of what must hold whatever comes first: buffers and their
// permits, the two pools, the way of a batch into tree and index, kills in between, the tree of
// URLs that workers share. It has no code. verify.sh lets Spin look at all orders of steps: good
// models must hold, and those with a known mistake must fail. The tests hold the models to the code
// that they stand for.
package model
