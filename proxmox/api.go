package proxmox

import "github.com/cps-gpu/homelab/proxmox/api"

// How requests get to Proxmox and back is package api; these are its names that users of
// this package write.
type (
	Config    = api.Config
	Login     = api.Login
	Version   = api.Version
	Error     = api.Error
	TaskError = api.TaskError
	TLSError  = api.TLSError
)

// Errors that callers may ask for with [errors.Is].
var (
	// ErrNotFound says that the VM, volume or mapping is not there.
	ErrNotFound = api.ErrNotFound
	// ErrAgentNotRunning says that the guest agent does not answer (yet).
	ErrAgentNotRunning = api.ErrAgentNotRunning
	// ErrUnauthorized says that the token is not accepted.
	ErrUnauthorized = api.ErrUnauthorized
)
