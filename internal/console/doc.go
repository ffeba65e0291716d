// Package console is the edge where events become something a person reads.
//
// Three displays listen to a run. On a terminal, a line for each node says what
// runs there now, for how long and what is waited for; a node that is done leaves
// one line behind, a failure is told in full at once. In a file or a pipe there are
// plain lines for what matters. For programs there are JSON lines.
//
// Plans, states and tables are printed here too. Talk goes to standard error, data
// to standard output. Everything passes a redactor before it is folded, cut or
// wrapped, so that no secret can escape in pieces; and nothing that a guest or a
// server says can move the cursor.
package console
