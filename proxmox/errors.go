package proxmox

import "github.com/cps-gpu/homelab/proxmox/internal/api"

// Errors to test for with [errors.Is].
var (
	// ErrNotFound says that the VM, volume or mapping does not exist.
	ErrNotFound = api.ErrNotFound
	// ErrAgentNotRunning says that the guest agent does not answer (yet).
	ErrAgentNotRunning = api.ErrAgentNotRunning
	// ErrUnauthorized says that Proxmox does not accept the token.
	ErrUnauthorized = api.ErrUnauthorized
)

// Error is an answer of Proxmox that is no success, or none at all: of a request, or of a task at its
// end. Its text has Proxmox's own words and what to do about them. Find it with [errors.As]:
//
//	var no proxmox.Error
//	if errors.As(err, &no) && no.IsPermission() { … }
type Error interface {
	error
	// IsPermission reports whether the token lacks a privilege.
	IsPermission() bool
	// Permission returns the object's path and the privileges of which the token lacks one, or all, as
	// far as Proxmox says.
	Permission() (path string, privileges []string, ok bool)
}

// CertificateError says that a host shows a certificate that is not trusted. Find it with [errors.As].
type CertificateError interface {
	error
	// Fingerprints returns the SHA-256 of the certificate, and of the one that was expected, "" for any
	// with a known authority. A person compares, and then stores it as [Config.Fingerprint].
	Fingerprints() (shown, want string)
}
