package proxmox

// What tests from outside look at.
type Class = class

const (
	Permanent = permanent
	Transient = transient
	Unknown   = unknown
)

func ClassOf(err error) Class { return errorClass(err) }

func ParseUPID(s string) (UPID, error) { return parseUPID(s) }
