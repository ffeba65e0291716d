// Package verify tries the parts of a platform as people use them: a line of a log is written and found again, a page
// is opened by its name, a volume is written and read.
//
// A [Check] lives with the part that it tries, in package addon. It changes nothing of others: what it creates is in a
// namespace of its own, [Namespace], has our labels, and is removed when it ends, also after an interruption. What a
// killed run left there, the next one removes.
package verify
