package guest

import (
	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/image"
	"github.com/cps-gpu/homelab/sim/guest/internal/internet"
	"github.com/cps-gpu/homelab/sim/guest/internal/k3s"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/network"
	"github.com/cps-gpu/homelab/sim/guest/internal/plane"
	"github.com/cps-gpu/homelab/sim/guest/internal/pvehost"
)

// Disk is an in-memory file system with what dpkg knows about it. Clones share
// everything that neither side has changed since. It is safe for concurrent use.
type Disk = disk.Disk

// NewDisk returns a disk with an empty file system.
func NewDisk() *Disk { return disk.New() }

// NewBase returns the disk of a cloud image as its distributor publishes it:
// cloud-init is there, a guest agent and host keys are not. "noble" (Ubuntu
// 24.04) and "trixie" (Debian 13) are what there is; other names give an empty disk
// that does not boot.
func NewBase(release string) *Disk { return image.New(release) }

// OpenImage returns the disk in a downloaded image file. It knows the images that
// [DefaultInternet] serves.
func OpenImage(content []byte) (*Disk, error) { return image.Open(content) }

// Network is a virtual network, layers 2 and 3 in one: every address on it can
// be reached from every other. The zero Network is ready to use.
type Network = network.Network

// Host is what answers at an address of a [Network].
type Host = network.Host

// Handler serves one connection and returns when it has ended. It closes conn.
type Handler = network.Handler

// Internet answers a download with its content, or an error that wraps
// [ErrNotFound] for what the server does not have.
type Internet = internet.Internet

// What an Internet's errors may wrap. Any other error is a server that cannot be
// reached.
var (
	// ErrNotFound is an HTTP 404.
	ErrNotFound = internet.ErrNotFound
	// ErrRefused is a server that takes no connections.
	ErrRefused = internet.ErrRefused
	// ErrUntrusted is a server whose certificate nobody trusts.
	ErrUntrusted = internet.ErrUntrusted
)

// StatusError is an answer of a web server that is not a file.
type StatusError = internet.StatusError

// DefaultInternet serves what a cluster downloads, small and made up but true to
// its own checksums: K3s releases of any version (binary, air-gap images and
// sha256sum files), NVIDIA's apt key, and the cloud images of Ubuntu 24.04
// and Debian 13 with their SHA256SUMS and SHA512SUMS.
func DefaultInternet() Internet { return internet.Default() }

// CRIOFingerprint is that of the key of CRI-O's repositories in [DefaultInternet].
const CRIOFingerprint = internet.CRIOFingerprint

// SHA256 returns the checksum of a file of the simulated internet, in hexadecimal:
// for Ubuntu's disk image, that of the real one; for everything else, its own.
func SHA256(content []byte) string { return internet.SHA256(content) }

// SHA512 is the same, for Debian's disk image.
func SHA512(content []byte) string { return internet.SHA512(content) }

// Kubernetes makes control planes. It is asked once for each cluster, when the
// first server (cluster-init) of it starts.
type Kubernetes = plane.Kubernetes

// PlaneConfig is what the first server's configuration says about its cluster.
type PlaneConfig = plane.Config

// PlaneSaved is the state of a control plane, as a snapshot of etcd has it.
type PlaneSaved = plane.SavedState

// PlaneSaver is a [Plane] that can be saved, and restored with [PlaneConfig].
type PlaneSaver = plane.Saver

// PlaneIssuerSetter is a [Plane] whose API server takes the tokens of an issuer, and PlaneArgument says of which.
type (
	PlaneIssuerSetter = plane.IssuerSetter
	PlaneArgument     = plane.Argument
)

// OfferBucket makes an S3 service with an empty bucket reachable from the machines of a
// network, at HOST or HOST:PORT, for those who have its keys.
func OfferBucket(n *Network, endpoint, bucket, accessKey, secretKey string) {
	k3s.OfferBucket(n, endpoint, bucket, accessKey, secretKey)
}

// BucketKeys returns the keys of the objects in such a bucket, in order.
func BucketKeys(n *Network, endpoint, bucket string) []string {
	return k3s.BucketKeys(n, endpoint, bucket)
}

// Plane is one cluster's control plane. Implementations are safe for concurrent use.
type Plane = plane.Plane

// Node is a machine on which K3s runs, as it introduces itself to its cluster.
type Node = plane.Node

// GPU is one card (or function) that a node offers.
type GPU = plane.GPU

// GPUInstance is a part of a divided GPU.
type GPUInstance = plane.Instance

// Offer returns the devices that NVIDIA's device plugin registers for a node's GPUs, by
// resource, with its strategy for divided GPUs: none, single or mixed.
func Offer(gpus []GPU, strategy string) (map[string][]string, error) {
	return plane.Offer(gpus, strategy)
}

// Container is one container of a pod.
type Container = plane.Container

// Config describes a machine: what a hypervisor plugs together. It is not
// changed by the Machine, except for the contents of its disks.
type Config = machine.Config

// PCI is a passed-through function as the guest sees it.
type PCI = machine.PCI

// InfoROM is what an NVIDIA card remembers without power, whichever machine has it.
type InfoROM = machine.InfoROM

// BlockDevice is a disk as the guest sees it.
type BlockDevice = machine.BlockDevice

// Faults are things that go wrong in a guest.
type Faults = machine.Faults

// Interface is a network card as the guest agent reports it.
type Interface = machine.Interface

// ErrOff is returned by what needs a running guest.
var ErrOff = machine.ErrOff

// HostConfig makes a [Machine] a Proxmox VE host instead of an Ubuntu guest: its
// boot loader's files and programs, its PCI devices and which driver has them. It is
// not changed by the Machine.
//
// A change to the command line counts when the boot loader was told and the host has
// rebooted, one to modprobe.d when the initramfs was recreated; then devices go to
// the driver that the kernel would give them to.
type HostConfig = machine.HostConfig

// HostDevice is a PCI function of a host.
type HostDevice = machine.HostDevice

// HostBoot is the result of a boot.
type HostBoot = machine.HostBoot

// HostProgram is a program that somebody else adds, such as pveum. It returns its
// exit status.
type HostProgram = machine.HostProgram

// Loader is what starts the kernel of a Proxmox VE host.
type Loader = machine.Loader

// The ways in which Proxmox's installer sets a host up.
const (
	LoaderGRUB        = machine.LoaderGRUB        // on ext4 or xfs
	LoaderSystemdBoot = machine.LoaderSystemdBoot // on ZFS with UEFI: proxmox-boot-tool keeps the ESPs
	LoaderESPGRUB     = machine.LoaderESPGRUB     // on ZFS with BIOS or Secure Boot: the same with GRUB
)

// NewHostDisk returns the disk of a Proxmox VE host as its installer leaves it
// (pve-installer, Proxmox/Install.pm), with what c says beyond that.
func NewHostDisk(name string, c *HostConfig) *Disk { return pvehost.NewDisk(name, c) }
