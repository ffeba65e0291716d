package cloudinit

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/iso9660"
)

// installation is a machine whose Windows is installed.
func installation() Machine {
	m := worker()
	m.Hostname = "build"
	m.Windows = &WindowsSetup{Edition: "Windows 11 Pro", Language: "en-US", Drivers: "w11", SHA256: strings.Repeat("5a", 32)}
	return m
}

// texts are the texts of an XML document by the path of their elements.
func texts(t testing.TB, document []byte) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	d := xml.NewDecoder(bytes.NewReader(document))
	var at []string
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			at = append(at, token.Name.Local)
			out[strings.Join(at, "/")] = append(out[strings.Join(at, "/")], "")
		case xml.EndElement:
			at = at[:len(at)-1]
		case xml.CharData:
			if all := out[strings.Join(at, "/")]; len(all) > 0 {
				all[len(all)-1] += string(token)
			}
		}
	}
}

// Windows Setup finds the answer file on the disc beside cloudbase-init's documents, and no password or key in it.
func TestAnswerFile(t *testing.T) {
	n, err := RenderWindows(installation())
	require.NoError(t, err)
	files, err := n.Files()
	require.NoError(t, err)
	assert.Len(t, files, 5)
	_, err = n.ISO()
	require.NoError(t, err)
	for name := range files {
		assert.LessOrEqual(t, len(name), 64, "Joliet's limit")
	}
	for _, key := range installation().AuthorizedKeys {
		assert.NotContains(t, string(files[answerName]), key)
	}
	for path, found := range texts(t, files[answerName]) {
		assert.NotRegexp(t, `(?i)password|autologon|account$`, path)
		assert.NotContains(t, path, "ProductKey", "an empty one stops Setup")
		assert.NotContains(t, found, "", path)
	}
	without, err := RenderWindows(func() Machine { m := installation(); m.Windows = nil; return m }())
	require.NoError(t, err)
	one, _ := n.Digest()
	other, _ := without.Digest()
	assert.NotEqual(t, one, other, "another installation is another machine")
}

// Whatever an edition and a language are, the file is well-formed, and has them as one text each.
func FuzzAnswerFile(f *testing.F) {
	for _, s := range []string{"Windows 11 Pro", `</Value><Password>x</Password>`, "Windows Server 2025 SERVERSTANDARD", "a & b ]]> \" '", "{{.Hostname}}"} {
		f.Add(s, "build", "en-US")
	}
	f.Fuzz(func(t *testing.T, edition, hostname, language string) {
		setup := WindowsSetup{Edition: edition, Language: language, Drivers: "w11", SHA256: strings.Repeat("5a", 32)}
		files, err := setup.files(hostname)
		require.NoError(t, err)
		found := texts(t, files[answerName])
		const image = "unattend/settings/component/ImageInstall/OSImage/InstallFrom/MetaData/Value"
		assert.Equal(t, []string{shown(edition)}, found[image])
		assert.Equal(t, []string{shown(hostname)}, found["unattend/settings/component/ComputerName"])
		assert.Equal(t, shown(language), found["unattend/settings/component/UILanguage"][0])
		plain, err := (&WindowsSetup{ProductKey: setup.ProductKey}).files("")
		require.NoError(t, err)
		assert.Len(t, found, len(texts(t, plain[answerName])), "no element more")
	})
}

// shown is a text as a document can have it: xml.EscapeText replaces what XML has no character for.
func shown(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || r == '\r' || r >= 0x20 && r <= 0xD7FF || r >= 0xE000 && r <= 0xFFFD || r >= 0x10000 {
			return r
		}
		return '\uFFFD'
	}, s)
}

// Equal installations are equal discs.
func TestAnswerFileIsTheSame(t *testing.T) {
	one, err := RenderWindows(installation())
	require.NoError(t, err)
	files, err := one.Files()
	require.NoError(t, err)
	disc, err := one.ISO()
	require.NoError(t, err)
	again, err := iso9660.Build("cidata", files)
	require.NoError(t, err)
	assert.Equal(t, again, disc)
}
