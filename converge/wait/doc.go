// Package wait has the loop in which everything here waits for something.
//
// Waiting has one rule. What waiting does not fix ends it at once, with its own
// words ([Permanent]). What cannot be seen now is looked at again, for as long as
// the wait may take; what the last look found is the progress line meanwhile, and
// stands in the error beside the reason why the wait ended.
//
// How long that is, is measured in time in which the program ran: a laptop that
// sleeps, or a process that somebody stops, loses none of it ([Within]).
package wait
