// Package wait has the loop that all code here uses to wait for something.
//
// An error that waiting does not fix ends the wait at once and is returned unchanged
// ([Permanent]). After any other error the loop checks again until its time is over; the
// result of the last check is the progress line meanwhile, and is in the error together with
// the reason why the wait ended.
//
// Time limits count only time in which the program runs, not that of a sleeping laptop or a
// stopped process ([Within]).
package wait
