package windows

import (
	"bytes"
	"crypto/sha256"
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/iso"
)

// components are those of Windows that the simulator knows, and the passes in which each has settings (Unattended Windows
// Setup Reference).
func components() map[string][]string {
	return map[string][]string{
		"Microsoft-Windows-International-Core-WinPE":  {"windowsPE"},
		"Microsoft-Windows-PnpCustomizationsWinPE":    {"windowsPE"},
		"Microsoft-Windows-Setup":                     {"windowsPE"},
		"Microsoft-Windows-Deployment":                {"specialize", "auditUser", "generalize"},
		"Microsoft-Windows-Shell-Setup":               {"specialize", "oobeSystem", "auditSystem", "auditUser", "generalize", "offlineServicing"},
		"Microsoft-Windows-International-Core":        {"specialize", "oobeSystem"},
		"Microsoft-Windows-PnpCustomizationsNonWinPE": {"offlineServicing", "auditSystem"},
	}
}

// unattend is an answer file, as far as Setup is played.
type unattend struct {
	XMLName  xml.Name   `xml:"urn:schemas-microsoft-com:unattend unattend"`
	Settings []settings `xml:"settings"`
}

type settings struct {
	Pass       string      `xml:"pass,attr"`
	Components []component `xml:"component"`
}

type component struct {
	Name         string   `xml:"name,attr"`
	Architecture string   `xml:"processorArchitecture,attr"`
	Token        string   `xml:"publicKeyToken,attr"`
	Language     string   `xml:"UILanguage"`
	Drivers      []string `xml:"DriverPaths>PathAndCredentials>Path"`
	Partitions   []struct {
		Type string `xml:"Type"`
	} `xml:"DiskConfiguration>Disk>CreatePartitions>CreatePartition"`
	Image struct {
		Key   string `xml:"Key"`
		Value string `xml:"Value"`
	} `xml:"ImageInstall>OSImage>InstallFrom>MetaData"`
	To         string    `xml:"ImageInstall>OSImage>InstallTo>PartitionID"`
	EULA       string    `xml:"UserData>AcceptEula"`
	ProductKey *string   `xml:"UserData>ProductKey>Key"`
	Computer   string    `xml:"ComputerName"`
	Commands   []command `xml:"RunSynchronous>RunSynchronousCommand"`
	SkipOOBE   string    `xml:"OOBE>SkipMachineOOBE"`
}

type command struct {
	Path string `xml:"Path"`
}

// part is a component of a pass.
type part struct {
	pass string
	component
}

// readAnswer reads an answer file as strictly as Setup, which shows a message and stops.
func readAnswer(document []byte) (parts map[string]part, err error) {
	var file unattend
	d := xml.NewDecoder(bytes.NewReader(document))
	if err := d.Decode(&file); err != nil {
		return nil, fmt.Errorf("Autounattend.xml: %w", err)
	}
	if rest := document[d.InputOffset():]; len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("Autounattend.xml: more than one document")
	}
	parts = map[string]part{}
	for _, s := range file.Settings {
		for _, c := range s.Components {
			passes, known := components()[c.Name]
			key := s.Pass + "/" + c.Name
			switch {
			case !known:
				return nil, fmt.Errorf("there is no component %s", c.Name)
			case !slices.Contains(passes, s.Pass):
				return nil, fmt.Errorf("component %s has no settings in the pass %s", c.Name, s.Pass)
			case c.Architecture != "amd64" || c.Token != "31bf3856ad364e35":
				return nil, fmt.Errorf("component %s is of another architecture or publisher", c.Name)
			case parts[key].Name != "":
				return nil, fmt.Errorf("component %s is twice in the pass %s", c.Name, s.Pass)
			case slices.ContainsFunc(c.Commands, func(c command) bool { return c.Path == "" || len(c.Path) > 259 }):
				return nil, fmt.Errorf("a command of %s has no path, or one longer than 259 characters", c.Name)
			case c.ProductKey != nil && *c.ProductKey == "":
				return nil, errors.New("the product key is empty: Setup asks for one")
			}
			parts[key] = part{s.Pass, c}
		}
	}
	return parts, nil
}

var (
	driverPath = regexp.MustCompile(`^[D-Z]:\\vioscsi\\(w10|w11|2k16|2k19|2k22|2k25)\\amd64$`)
	script     = regexp.MustCompile(`^cmd /c for %i in \(([A-Z] ?)+\) do if exist %i:\\([^ \\]+) powershell -NoProfile -ExecutionPolicy Bypass -File %i:\\([^ \\]+) -SHA256 ([0-9a-f]{64})$`)
)

// install plays Setup with the discs of a VM: what it would stop at, nil for nothing.
func install(seed []byte, discs [][]byte) error {
	mine, _, err := iso.Read(seed)
	if err != nil {
		return fmt.Errorf("no disc with an answer file: %w", err)
	}
	answer := mine["Autounattend.xml"]
	if answer == nil {
		return errors.New("Setup finds no Autounattend.xml, and asks")
	}
	parts, err := readAnswer(answer)
	if err != nil {
		return err
	}
	all := map[string][]byte{}
	for _, disc := range discs {
		if files, _, err := iso.Read(disc); err == nil {
			maps.Copy(all, files)
		}
	}
	setup := parts["windowsPE/Microsoft-Windows-Setup"]
	layout := []string{}
	for _, p := range setup.Partitions {
		layout = append(layout, p.Type)
	}
	switch images := strings.Split(strings.TrimSpace(string(all["install.wim"])), "\n"); {
	case parts["windowsPE/Microsoft-Windows-International-Core-WinPE"].Language == "":
		return errors.New("Setup asks for a language")
	case !slices.ContainsFunc(parts["windowsPE/Microsoft-Windows-PnpCustomizationsWinPE"].Drivers, driverPath.MatchString):
		return errors.New("Setup sees no disk: no driver of its controller")
	case !slices.Equal(layout, []string{"EFI", "MSR", "Primary"}) || setup.To != "3":
		return fmt.Errorf("Setup cannot install to partition %q of %v", setup.To, layout)
	case setup.Image.Key != "/IMAGE/NAME" || !slices.Contains(images, setup.Image.Value):
		return fmt.Errorf("the disc has no image %q, but %s", setup.Image.Value, strings.Join(images, ", "))
	case setup.EULA != "true":
		return errors.New("Setup asks whether the licence is accepted")
	case parts["oobeSystem/Microsoft-Windows-Shell-Setup"].SkipOOBE != "true":
		return errors.New("Windows asks for an account")
	}
	return specialize(parts, mine, all)
}

// specialize is the pass in which what Windows lacks is installed.
func specialize(parts map[string]part, mine, discs map[string][]byte) error {
	if n := len(parts["specialize/Microsoft-Windows-Shell-Setup"].Computer); n == 0 || n > 15 {
		return errors.New("the computer's name has no character, or more than 15")
	}
	commands := parts["specialize/Microsoft-Windows-Deployment"].Commands
	if len(commands) != 1 {
		return errors.New("one command is known")
	}
	m := script.FindStringSubmatch(commands[0].Path)
	switch {
	case m == nil || m[2] != m[3] || len(mine[m[2]]) == 0:
		return fmt.Errorf("the command is not known: %s", commands[0].Path)
	case discs["CloudbaseInitSetup_x64.msi"] == nil:
		return errors.New("no disc has CloudbaseInitSetup_x64.msi")
	case fmt.Sprintf("%x", sha256.Sum256(discs["CloudbaseInitSetup_x64.msi"])) != m[4]:
		return errors.New("CloudbaseInitSetup_x64.msi has another checksum")
	case discs["virtio-win-guest-tools.exe"] == nil:
		return errors.New("no disc has virtio-win-guest-tools.exe")
	case mine["user-data"] == nil || mine["meta-data"] == nil:
		return errors.New("cloudbase-init finds no documents")
	}
	return nil
}
