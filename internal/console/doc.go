// Package console displays events, plans and results.
//
// Three displays listen to a run. On a terminal, a line for each node says what runs there
// now, for how long and what is waited for; a node that is done leaves one line behind, a
// failure is printed in full at once. In a file or a pipe there are plain lines for what
// matters. For programs there are JSON lines.
//
// Plans, states and tables are printed here too. Talk goes to standard error, data to standard
// output. All output passes a redactor before it is folded, shortened or wrapped, so that no
// secret can escape in pieces, and text of guests or servers cannot move the cursor.
package console
