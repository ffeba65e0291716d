// Package running starts and stops machines, and answers for those that run and for their
// guest agents.
package running
