package fault

import (
	"encoding/json"
	"net/url"
	"time"

	"github.com/cps-gpu/homelab/sim/guest"
)

// Rule makes something go wrong. It says which requests it is for (all that is
// set must hold), which of those by number, and what happens to them.
//
// Without After the host does nothing and only the rule's effect is seen; with
// After the work is done, and what is lost or replaced is the answer.
type Rule struct {
	Method   string             // GET, POST, …; empty is any
	Path     string             // a regular expression over the whole path below /api2/json; empty is any
	Mutating bool               // only what is neither GET nor a login
	When     func(Request) bool // further conditions

	Skip  int // the first so many matches pass unharmed
	Times int // so many are hit after that; 0 is one, negative is all

	After bool // the work is done all the same

	Delay   time.Duration     // before anything else; from 30 s on the proxy gives up with 596 while the work goes on
	Drop    bool              // the connection ends without an answer
	Status  int               // answered with this status …
	Message string            // … this text in status line and body …
	Errors  map[string]string // … and these errors by parameter
	Body    *string           // the raw body with Status, where Message would not do
	Data    json.RawMessage   // answered 200 with this as "data": null for a lost UPID, a field of the wrong type

	TaskError    string        // the request's task fails with this, under HTTP 200; with [Killed], its process dies
	TaskWarnings int           // its task does its work and ends with "WARNINGS: n"
	TaskDelay    time.Duration // its task takes this much longer

	Guest *guest.Faults // for the guest that the request's task starts
}

// Request is one request as it was served.
type Request struct {
	Method   string
	Path     string     // below /api2/json, decoded
	Route    string     // the method in the schema's terms: GET /nodes/{node}/qemu; empty where there is none
	Params   url.Values // without secrets
	User     string     // user or token
	Status   int        // 0 for a dropped connection
	Message  string     // of an error
	Mutating bool       // neither GET nor a login
}

// Killed is the exit status of a task whose process died. As the TaskError of a
// [Rule] it leaves behind what the request had prepared, such as the empty and
// locked configuration of a machine that was to be created.
const Killed = "unexpected status"
