// Package guests makes, copies, moves and destroys machines, one or many, and answers for
// their snapshots.
package guests
