package proxmox

import (
	"github.com/cps-gpu/homelab/proxmox/api"
	"github.com/cps-gpu/homelab/proxmox/pci"
	"github.com/cps-gpu/homelab/proxmox/unit"
)

// Types of the packages below this one, under names for users of this package.
type (
	Config    = api.Config
	Login     = api.Login
	Version   = api.Version
	Error     = api.Error
	TaskError = api.TaskError
	TLSError  = api.TLSError

	GPU     = pci.GPU
	Mapping = pci.Mapping
)

// Errors to test for with [errors.Is].
var (
	// ErrNotFound says that the VM, volume or mapping does not exist.
	ErrNotFound = api.ErrNotFound
	// ErrAgentNotRunning says that the guest agent does not answer (yet).
	ErrAgentNotRunning = api.ErrAgentNotRunning
	// ErrUnauthorized says that Proxmox does not accept the token.
	ErrUnauthorized = api.ErrUnauthorized
)

// Size is a number of bytes that prints in a readable form: 16GiB.
type Size = unit.Size

// The units of Size. Proxmox counts in powers of 1024 everywhere.
const (
	KiB = unit.KiB
	MiB = unit.MiB
	GiB = unit.GiB
	TiB = unit.TiB
)

// PCIAddress is the address of a device in a host. Function is -1 for the whole device, with all
// its functions.
type PCIAddress = unit.PCIAddress

// ParsePCIAddress is [unit.ParsePCIAddress].
func ParsePCIAddress(s string) (PCIAddress, error) { return unit.ParsePCIAddress(s) }

// MapGPUs is [pci.MapGPUs]. It makes the mapping of whole cards of one host.
func MapGPUs(id, description, host string, gpus ...GPU) Mapping {
	return pci.MapGPUs(id, description, host, gpus...)
}
