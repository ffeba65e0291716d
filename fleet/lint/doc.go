// Package lint says of any Fleet repository what is wrong with it, without a cluster.
//
// [Run] reads it as Fleet does ([ReadBundles]), and reports what Fleet refuses, and what it
// accepts without a word and does not do. docs/fleet-lint.md has every rule with an example.
package lint
