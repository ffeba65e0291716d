// Package secret holds values that must not be printed.
//
// A [Value] is a string with one exit: [Value.Reveal]. Every other way in which
// Go turns a value into text (fmt, slog, encoding/json, encoding.TextMarshaler)
// shows "[secret]" instead, so a token that is part of a struct cannot reach a
// log, an event or a plan by accident.
//
// Values come from [FromEnv], [FromFile], or [Random] for generated ones. A [Redactor] is the
// second line of defence, for foreign text: a server's answer, a program's output.
//
// This package does not encrypt, and does not protect memory from a debugger: the Go runtime
// copies strings and does not wipe them.
package secret
