package hostprep

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func iommu() options {
	return options{want: []string{"intel_iommu=on", "iommu=pt"}, refuse: []string{"iommu=off", "intel_iommu=off"}}
}

func TestEditGrub(t *testing.T) {
	for _, c := range []struct{ name, before, after string }{
		{"as installed", `GRUB_CMDLINE_LINUX_DEFAULT="quiet"` + "\n", `GRUB_CMDLINE_LINUX_DEFAULT="quiet intel_iommu=on iommu=pt"` + "\n"},
		{"nothing there", "GRUB_CMDLINE_LINUX_DEFAULT=\"\"\n", "GRUB_CMDLINE_LINUX_DEFAULT=\"intel_iommu=on iommu=pt\"\n"},
		{"nothing at all", "GRUB_CMDLINE_LINUX_DEFAULT=\n", "GRUB_CMDLINE_LINUX_DEFAULT=\"intel_iommu=on iommu=pt\"\n"},
		{"no such line", "GRUB_DEFAULT=0", "GRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX_DEFAULT=\"intel_iommu=on iommu=pt\"\n"},
		{"half of it", `GRUB_CMDLINE_LINUX_DEFAULT="quiet iommu=pt nosmt"`, `GRUB_CMDLINE_LINUX_DEFAULT="quiet iommu=pt nosmt intel_iommu=on"`},
		{"in the other variable", "GRUB_CMDLINE_LINUX=\"iommu=pt intel_iommu=on\"\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n", ""},
		{"single quotes", `GRUB_CMDLINE_LINUX_DEFAULT='quiet splash' # mine`, `GRUB_CMDLINE_LINUX_DEFAULT='quiet splash intel_iommu=on iommu=pt' # mine`},
		{"bare", "GRUB_CMDLINE_LINUX_DEFAULT=quiet # loud\n", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet intel_iommu=on iommu=pt\" # loud\n"},
		{"quotes within", `GRUB_CMDLINE_LINUX_DEFAULT="dyndbg=\"file vfio* +p\" quiet"`, `GRUB_CMDLINE_LINUX_DEFAULT="dyndbg=\"file vfio* +p\" quiet intel_iommu=on iommu=pt"`},
		{"the last one counts", "GRUB_CMDLINE_LINUX_DEFAULT=\"a\"\nGRUB_CMDLINE_LINUX_DEFAULT=\"b\"\n", "GRUB_CMDLINE_LINUX_DEFAULT=\"a\"\nGRUB_CMDLINE_LINUX_DEFAULT=\"b intel_iommu=on iommu=pt\"\n"},
		{"comments are none", "#GRUB_CMDLINE_LINUX_DEFAULT=\"x\"\n GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n", "#GRUB_CMDLINE_LINUX_DEFAULT=\"x\"\n GRUB_CMDLINE_LINUX_DEFAULT=\"quiet intel_iommu=on iommu=pt\"\n"},
		{"switched off", `GRUB_CMDLINE_LINUX_DEFAULT="intel_iommu=off quiet"`, `GRUB_CMDLINE_LINUX_DEFAULT="quiet intel_iommu=on iommu=pt"`},
		{"switched off elsewhere", "GRUB_CMDLINE_LINUX=\"iommu=off x\"\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n", "GRUB_CMDLINE_LINUX=\"x\"\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet intel_iommu=on iommu=pt\"\n"},
		{"no part of a word", `GRUB_CMDLINE_LINUX_DEFAULT="xiommu=pt intel_iommu=one"`, `GRUB_CMDLINE_LINUX_DEFAULT="xiommu=pt intel_iommu=one intel_iommu=on iommu=pt"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := parseGrub("/etc/default/grub", c.before)
			require.NoError(t, err)
			changes := grubConfig{f}.edit(iommu())
			if c.after == "" {
				assert.Empty(t, changes)
				return
			}
			require.Len(t, changes, 1)
			assert.Equal(t, c.after, changes[0].After)
			again, err := parseGrub("/etc/default/grub", c.after)
			require.NoError(t, err)
			assert.Empty(t, grubConfig{again}.edit(iommu()), "a second time changes nothing")
			assert.True(t, iommu().areSet(grubConfig{again}.effective()))
		})
	}
}

func TestGrubSnippets(t *testing.T) {
	parse := func(path, text string) grubFile {
		f, err := parseGrub(path, text)
		require.NoError(t, err)
		return f
	}
	main := parse("/etc/default/grub", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\nGRUB_CMDLINE_LINUX=\"\"\n")
	zfs := parse("/etc/default/grub.d/zfs.cfg", `GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX root=ZFS=rpool/ROOT/pve-1 boot=zfs"`)
	assert.Equal(t, cmdline{"root=ZFS=rpool/ROOT/pve-1", "boot=zfs", "quiet"}, grubConfig{main, zfs}.effective())
	changes := grubConfig{main, zfs}.edit(iommu())
	require.Len(t, changes, 1)
	assert.Equal(t, "/etc/default/grub", changes[0].Path)

	adds := parse("/etc/default/grub.d/x.cfg", `GRUB_CMDLINE_LINUX_DEFAULT="${GRUB_CMDLINE_LINUX_DEFAULT} nosmt iommu=pt"`)
	changes = grubConfig{main, adds}.edit(iommu())
	require.Len(t, changes, 1, "one that adds to the options is left alone")
	assert.Contains(t, changes[0].After, `"quiet intel_iommu=on"`)

	sets := parse("/etc/default/grub.d/50-cloud.cfg", `GRUB_CMDLINE_LINUX_DEFAULT="console=ttyS0"`)
	changes = grubConfig{main, sets}.edit(iommu())
	require.Len(t, changes, 1)
	assert.Equal(t, "/etc/default/grub.d/50-cloud.cfg", changes[0].Path, "what is said before it does not count")
}

func TestGrubThatWeDoNotDareToChange(t *testing.T) {
	for text, why := range map[string]string{
		`GRUB_CMDLINE_LINUX_DEFAULT+=" quiet"`:            "is added to with +=",
		"GRUB_CMDLINE_LINUX_DEFAULT=\"quiet \\\nnosmt\"":  "spans several lines",
		`GRUB_CMDLINE_LINUX_DEFAULT="$(cat /etc/opts)"`:   "is the output of a command",
		`GRUB_CMDLINE_LINUX_DEFAULT=a'b'`:                 "is assembled",
		`GRUB_CMDLINE_LINUX_DEFAULT="a"'b'`:               "is followed by more",
		`GRUB_CMDLINE_LINUX_DEFAULT="a"; GRUB_DEFAULT=0`:  "is followed by more",
		"x=1\nGRUB_CMDLINE_LINUX_DEFAULT=\"never closed ": "spans several lines",
	} {
		_, err := parseGrub("/etc/default/grub", text)
		assert.ErrorContains(t, err, why, text)
		assert.ErrorContains(t, err, "or change it yourself")
	}
}

// FuzzGrub holds the parser against the shell that reads the file in life: what it
// understands, it understands as sh does, and what it changes changes no other
// variable and nothing of the admin's.
func FuzzGrub(f *testing.F) {
	for _, text := range []string{
		"GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\nGRUB_CMDLINE_LINUX=\"\"\n", "GRUB_CMDLINE_LINUX_DEFAULT=quiet", "GRUB_CMDLINE_LINUX='a  b' # c\n",
		"GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT x\"\n", "\tGRUB_CMDLINE_LINUX_DEFAULT=\"iommu=off intel_iommu=off\"\r\n",
		"export GRUB_CMDLINE_LINUX=\"x\\\"y z\\\"\"", "GRUB_CMDLINE_LINUX_DEFAULT=a;b", "GRUB_CMDLINE_LINUX_DEFAULT=a#b",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		file, err := parseGrub("/etc/default/grub", text)
		if err != nil {
			return
		}
		changes := grubConfig{file}.edit(iommu())
		after := text
		if len(changes) > 0 {
			after = changes[0].After
		}
		again, err := parseGrub("/etc/default/grub", after)
		require.NoError(t, err, "what we write we can read")
		require.Empty(t, grubConfig{again}.edit(iommu()), "a second time changes nothing")
		for line := range strings.SplitSeq(text, "\n") {
			if !strings.Contains(line, "GRUB_CMDLINE_LINUX") {
				require.Contains(t, after, line)
			}
		}
	})
}

// shell is what sh makes of a file's two variables.
func shell(t *testing.T, text string) cmdline {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", text+"\nprintf '%s %s' \"$GRUB_CMDLINE_LINUX\" \"$GRUB_CMDLINE_LINUX_DEFAULT\"")
	out, err := cmd.Output()
	require.NoError(t, err)
	return parseCmdline(string(out))
}

func TestGrubReadsAsTheShellDoes(t *testing.T) {
	for _, text := range []string{
		"GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\nGRUB_CMDLINE_LINUX=\"\"\n",
		"GRUB_CMDLINE_LINUX_DEFAULT=quiet # x\n",
		"GRUB_CMDLINE_LINUX_DEFAULT='a b'\nGRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT c\"\n",
		"export GRUB_CMDLINE_LINUX=\"a\"\nGRUB_CMDLINE_LINUX=\"${GRUB_CMDLINE_LINUX} b\"\n",
		"GRUB_CMDLINE_LINUX=a\nGRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX b ${GRUB_CMDLINE_LINUX}\"\n",
		"GRUB_CMDLINE_LINUX_DEFAULT=a#b\n",
		"GRUB_CMDLINE_LINUX_DEFAULT='$GRUB_CMDLINE_LINUX_DEFAULT'\n",
	} {
		f, err := parseGrub("/etc/default/grub", text)
		require.NoError(t, err, text)
		assert.Equal(t, shell(t, text), grubConfig{f}.effective(), text)
		for _, c := range (grubConfig{f}).edit(iommu()) {
			assert.True(t, iommu().areSet(shell(t, c.After)), c.After)
		}
	}
}

func TestCmdline(t *testing.T) {
	o := iommu()
	assert.Equal(t, "root=ZFS=rpool/ROOT/pve-1 boot=zfs intel_iommu=on iommu=pt", o.edit("root=ZFS=rpool/ROOT/pve-1 boot=zfs"))
	assert.Equal(t, `dyndbg="file a +p"  quiet intel_iommu=on iommu=pt`, o.edit(`dyndbg="file a +p"  quiet`))
	assert.Equal(t, "a b intel_iommu=on iommu=pt", o.edit("a intel_iommu=off b iommu=off"))
	assert.Equal(t, "intel_iommu=on iommu=pt", o.edit("intel_iommu=off"))
	assert.Equal(t, cmdline{`x="a b"`, "c"}, parseCmdline(" x=\"a b\"\t c\n"))
}

func FuzzCmdline(f *testing.F) {
	f.Add("root=/dev/mapper/pve-root ro quiet")
	f.Add(`a="b c" iommu=off iommu=offx "iommu=off`)
	f.Add("iommu=off iommu=off")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Count(text, `"`)%2 == 1 || strings.ContainsAny(text, "\n\r") {
			return // a quote that is never closed swallows what we add; such a line boots nothing
		}
		before, after := parseCmdline(text), iommu().edit(text)
		got := parseCmdline(after)
		if !iommu().areSet(got) {
			t.Fatalf("%q became %q", text, after)
		}
		if again := iommu().edit(after); again != after {
			t.Fatalf("%q became %q the second time", after, again)
		}
		for _, word := range before {
			if len(iommu().unwantedOptions(cmdline{word})) == 0 && !got.has(word) {
				t.Fatalf("%q lost %q: %q", text, word, after)
			}
		}
	})
}
