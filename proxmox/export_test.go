package proxmox

// What tests from outside look at.
type (
	Class      = class
	Properties = properties
)

const (
	Permanent = permanent
	Transient = transient
	Unknown   = unknown
)

func ClassOf(err error) Class { return errorClass(err) }

func ParseUPID(s string) (UPID, error) { return parseUPID(s) }

func ParseProperties(s string) (Properties, error) { return parseProperties(s) }
