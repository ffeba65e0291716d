// Package secret holds values that must not be printed.
//
// A [Value] is a string with one exit: [Value.Reveal]. Every other way in which
// Go turns a value into text (fmt, slog, encoding/json, encoding.TextMarshaler)
// shows "[secret]" instead, so a token that is part of a struct cannot reach a
// log, an event or a plan by accident.
//
// Values come from where secrets live: [FromEnv], [FromFile], or [Random] for
// those we make ourselves. A [Redactor] is the second line of defence, for text
// that somebody else wrote: a server's answer, a program's output.
//
// What this package is not: encryption at rest, or memory that cannot be read by
// a debugger. Go strings are copied by the runtime and are not wiped.
package secret
