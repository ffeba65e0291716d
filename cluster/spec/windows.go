package spec

import "strings"

// WindowsISO says from which discs Windows is installed.
type WindowsISO struct {
	Windows       string        `yaml:"windows" required:"true" doc:"Microsoft's installation disc: a volume of the VM's host, as in ‘local:iso/Win11_24H2.iso’."`
	Drivers       string        `yaml:"drivers" required:"true" doc:"The disc virtio-win, e.g. ‘local:iso/virtio-win.iso’."`
	CloudbaseInit CloudbaseInit `yaml:"cloudbaseInit" required:"true" doc:"What makes the first boot."`
	Edition       string        `yaml:"edition" required:"true" doc:"Which Windows of the disc, by the name that ‘dism /Get-ImageInfo’ shows: ‘Windows 11 Pro’, ‘Windows Server 2025 SERVERSTANDARD’."`
	Language      string        `yaml:"language" default:"en-US" doc:"Language, formats and keyboard, which the disc must have."`
	ProductKey    string        `yaml:"productKey" absent:"none, as for discs of volume licences and for evaluation" doc:"A key that Microsoft publishes for everybody, where a disc of several editions asks for one. It activates nothing, and who may read the storage can read it: never write a key of yours."`
}

// CloudbaseInit is the installer of cloudbase-init.
type CloudbaseInit struct {
	ISO    string `yaml:"iso" required:"true" doc:"A disc with ‘CloudbaseInitSetup_x64.msi’ in its root folder: a volume of the VM's host."`
	SHA256 string `yaml:"sha256" required:"true" doc:"The checksum of that file, which Windows compares before it installs it."`
}

// Discs are the volumes of an installation; the VM boots from the first.
func (w WindowsISO) Discs() []string { return []string{w.Windows, w.Drivers, w.CloudbaseInit.ISO} }

// DriverFolder is the folder of virtio-win's disc with the drivers of the edition, "" for an unknown one.
func (w WindowsISO) DriverFolder() string {
	for _, known := range [][2]string{
		{"Windows 11 ", "w11"}, {"Windows 10 ", "w10"},
		{"Windows Server 2025 ", "2k25"}, {"Windows Server 2022 ", "2k22"}, {"Windows Server 2019 ", "2k19"}, {"Windows Server 2016 ", "2k16"},
	} {
		if strings.HasPrefix(w.Edition+" ", known[0]) {
			return known[1]
		}
	}
	return ""
}

// FromDiscs reports whether the machine's system is installed from discs.
func (n Node) FromDiscs() bool { return n.Boot != nil && n.Boot.IsInstalled() }

// IsInstalled reports whether the boot disk is empty at first.
func (b VMBoot) IsInstalled() bool { return b.ISO.Windows != "" }
