// Package words checks the English of comments, string literals and documentation against a
// list of phrases that read like a translation. docs/style.md has the rules behind the list.
//
// Text written before the list existed is excepted by testdata/baseline.txt, which has a
// count for each folder. A count may only shrink: -update writes the counts anew and
// refuses when their sum has grown.
package words
