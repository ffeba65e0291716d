package cloudinit

import (
	"bytes"
	_ "embed"
	"encoding/xml"
	"fmt"
	"strings"
	"text/template"
)

// WindowsSetup installs Windows from Microsoft's disc: Windows Setup looks for its answer file in the root folder of
// each disc, and installs from virtio-win's disc what Windows lacks. Nothing in it is secret.
type WindowsSetup struct {
	Edition    string // name of the image in install.wim
	Language   string // en-US; the disc must have it
	ProductKey string // a public one, which selects an edition of a retail disc and activates nothing; an empty element would stop Setup
	Drivers    string // virtio-win's folder of this Windows: w11
	SHA256     string // of CloudbaseInitSetup_x64.msi
}

//go:embed windows/Autounattend.xml
var answerFile string

// installWindows is what the answer file runs.
//
//go:embed windows/install.ps1
var installWindows []byte

// File names on the disc. The first is Microsoft's.
const (
	answerName = "Autounattend.xml"
	scriptName = "install-windows.ps1"
)

// discLetters are those that Windows PE and Windows can give to a VM's discs: the order depends on the machine.
const discLetters = "D E F G H I J"

// maxCommand is the longest Path of a RunSynchronousCommand.
const maxCommand = 259

// files are the answer file and what it runs, by file name.
func (w *WindowsSetup) files(hostname string) (map[string][]byte, error) {
	text, err := template.New(answerName).Funcs(template.FuncMap{"xml": escapeXML}).Parse(answerFile)
	if err != nil {
		return nil, err
	}
	answer := struct {
		WindowsSetup
		Hostname, Command string
		DriverPaths       []string
	}{*w, hostname, w.command(), w.driverPaths()}
	if len(answer.Command) > maxCommand {
		return nil, fmt.Errorf("machine %q: the command of Windows Setup is longer than %d characters", hostname, maxCommand)
	}
	var b bytes.Buffer
	if err := text.Execute(&b, answer); err != nil {
		return nil, err
	}
	return map[string][]byte{answerName: b.Bytes(), scriptName: installWindows}, nil
}

// driverPaths are where Windows PE may find the drivers of a virtio disk and of a virtio card.
func (w *WindowsSetup) driverPaths() (out []string) {
	for letter := range strings.FieldsSeq(discLetters) {
		for _, driver := range []string{"vioscsi", "NetKVM"} {
			out = append(out, fmt.Sprintf(`%s:\%s\%s\amd64`, letter, driver, w.Drivers))
		}
	}
	return out
}

// command runs the script from the disc that has it.
func (w *WindowsSetup) command() string {
	return fmt.Sprintf(`cmd /c for %%i in (%s) do if exist %%i:\%s powershell -NoProfile -ExecutionPolicy Bypass -File %%i:\%[2]s -SHA256 %s`,
		discLetters, scriptName, w.SHA256)
}

// escapeXML is text in an XML document.
func escapeXML(text string) (string, error) {
	var b strings.Builder
	err := xml.EscapeText(&b, []byte(text))
	return b.String(), err
}
