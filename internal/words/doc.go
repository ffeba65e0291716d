// Package words checks the English of comments, string literals and documentation against a
// list of phrases that read like a translation. docs/style.md has the rules behind the list.
//
// testdata/baseline.txt exempts text that is older than the list, by a count for each folder.
// Counts may only shrink: -update writes them again and refuses if their sum has grown.
package words
