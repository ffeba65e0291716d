package unit

// How many host devices a VM of Proxmox VE takes.
const (
	MaxPCI = 16 // hostpci0 to hostpci15
	MaxUSB = 14 // usb0 to usb13
)
