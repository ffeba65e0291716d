package gpu

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// NVML's numbers, which nvidia-smi exits with (nvml.h).
const (
	nvmlInvalid   = 2
	nvmlNoRights  = 4
	nvmlNotFound  = 6
	nvmlInUse     = 19
	nvmlNoRoom    = 23
	smiSuccessful = 0
)

// smiMode is nvidia-smi -mig 0|1. Its texts are those of the MIG User Guide, "Enable MIG Mode"
// and of listings in public repositories; a mode that stays pending is a success.
func smiMode(p *machine.Proc, cards []Card, numbers []int, want string) int {
	on := want == "1" || strings.EqualFold(want, "ENABLED")
	verb, state := "disable", "Disabled"
	if on {
		verb, state = "enable", "Enabled"
	}
	for _, i := range numbers {
		c, bus := cards[i], smiBus(cards[i])
		switch {
		case c.profiles() == nil:
			p.Printf("Unable to %s MIG Mode for GPU %s: Not Supported\nTreating as warning and moving on.\n", verb, bus)
			continue
		case p.User.UID != 0:
			p.Printf("Unable to %s MIG Mode for GPU %s: Insufficient Permissions\nTerminating early due to previous errors.\n", verb, bus)
			return nvmlNoRights
		case !on && len(c.instances) > 0:
			p.Printf("Unable to disable MIG Mode for GPU %s: In use by another client\nTerminating early due to previous errors.\n", bus)
			return nvmlInUse
		}
		setMode(p.Sys, c, on)
		p.Sys.RecordChange(fmt.Sprintf("MIG mode of GPU %d", i))
		if now, _ := migMode(p.Sys, c); now != on {
			p.Printf("Warning: MIG mode is in pending %s state for GPU %s:Not Supported\nReboot the system or try nvidia-smi --gpu-reset to make MIG mode effective on GPU %s\n", verb, bus, bus)
			continue
		}
		p.Printf("%s MIG Mode for GPU %s\n", state, bus)
	}
	p.Printf("All done.\n")
	return smiSuccessful
}

// smiMIG is nvidia-smi mig.
func smiMIG(p *machine.Proc, args []string) int {
	var verb, value, only string
	withCompute := false
	for i := 0; i < len(args); i++ {
		next := ""
		if i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			next = args[i+1]
		}
		switch a := args[i]; a {
		case "-i", "--id", "-gi", "-ci":
			if a == "-i" || a == "--id" {
				only = next
			}
			i++
		case "-C", "--default-compute-instance":
			withCompute = true
		case "-lgip", "-lgipp", "-lgi", "-lci", "-dgi", "-dci":
			verb = a
		case "-cgi", "-cci":
			if verb, value = a, next; next != "" {
				i++
			}
		default:
			p.Printf("Option %q is not recognized.\n", a)
			return nvmlInvalid
		}
	}
	cards, failed := visible(p)
	if failed != nil {
		p.Printf("%s", failed.text)
		return failed.code
	}
	numbers := chosenCards(cards, only)
	if len(numbers) == 0 {
		p.Printf("No devices were found\n")
		return nvmlNotFound
	}
	if !slices.ContainsFunc(numbers, func(i int) bool { return cards[i].mig }) && (verb != "-lgip" && verb != "-lgipp") {
		p.Printf("No MIG-enabled devices found.\n")
		if verb[1] == 'l' {
			return smiSuccessful // as of an H100 and an H200, driver 580.159.04
		}
		return nvmlNotFound
	}
	if p.User.UID != 0 && verb[1] != 'l' {
		p.Printf("Insufficient Permissions\n")
		return nvmlNoRights
	}
	return migVerb(p, cards, numbers, verb, value, withCompute)
}

func migVerb(p *machine.Proc, cards []Card, numbers []int, verb, value string, withCompute bool) int {
	code, found := smiSuccessful, 0
	if verb[1] == 'l' {
		return migList(p, cards, numbers, verb)
	}
	for _, i := range numbers {
		c := cards[i]
		if !c.mig {
			continue
		}
		switch verb {
		case "-cgi":
			found++
			code = max(code, createInstances(p, i, c, strings.Split(value, ","), withCompute))
		case "-cci":
			found += len(c.instances)
			createCompute(p, i, c)
		case "-dci":
			found += len(c.usable())
			destroyCompute(p, i, c)
		case "-dgi":
			found += len(c.instances)
			code = max(code, destroyInstances(p, i, c))
		}
	}
	if found == 0 {
		what := "GPU instances"
		if verb == "-dci" {
			what = "compute instances"
		}
		p.Printf("No %s found: Not Found\n", what)
		return nvmlNotFound
	}
	return code
}

func createInstances(p *machine.Proc, i int, c Card, wanted []string, withCompute bool) int {
	all := c.instances
	for _, what := range wanted {
		prof, at, ok := c.find(what)
		if !ok {
			p.Printf("Unable to find GPU instance profile matching '%s' on GPU %2d.\nFailed to create GPU instances: Not Found\n", what, i)
			return nvmlNotFound
		}
		made, ok := c.make(all, prof, at)
		if !ok {
			p.Printf("Unable to create a GPU instance on GPU %2d using profile %d: Insufficient Resources\nFailed to create GPU instances: Insufficient Resources\n", i, prof.id)
			return nvmlNoRoom
		}
		made.ready = withCompute
		all = append(slices.Clone(all), made)
		setInstances(p.Sys, c, slices.Clone(all))
		p.Sys.RecordChange(fmt.Sprintf("MIG %s on GPU %d", prof.name, i))
		p.Printf("Successfully created GPU instance ID %2d on GPU %2d using profile MIG %s (ID %2d)\n", made.number, i, prof.name, prof.id)
		if withCompute {
			sayCompute(p, i, made)
		}
	}
	return smiSuccessful
}

func sayCompute(p *machine.Proc, i int, made instance) {
	p.Printf("Successfully created compute instance ID  0 on GPU %2d GPU instance ID %2d using profile MIG %s (ID %2d)\n",
		i, made.number, made.name, map[int]int{1: 0, 2: 1, 3: 2, 4: 3, 7: 4}[made.slices()])
}

func createCompute(p *machine.Proc, i int, c Card) {
	for n := range c.instances {
		if !c.instances[n].ready {
			c.instances[n].ready = true
			sayCompute(p, i, c.instances[n])
		}
	}
	setInstances(p.Sys, c, c.instances)
}

func destroyCompute(p *machine.Proc, i int, c Card) {
	for n := range c.instances {
		if c.instances[n].ready {
			c.instances[n].ready = false
			p.Printf("Successfully destroyed compute instance ID  0 from GPU %2d GPU instance ID %2d\n", i, c.instances[n].number)
		}
	}
	setInstances(p.Sys, c, c.instances)
}

func destroyInstances(p *machine.Proc, i int, c Card) int {
	for n, inst := range c.instances {
		if inst.ready {
			p.Printf("Unable to destroy GPU instance ID %2d from GPU %2d: In use by another client\nFailed to destroy GPU instances: In use by another client\n", inst.number, i)
			setInstances(p.Sys, c, slices.Clone(c.instances[n:]))
			return nvmlInUse
		}
		p.Printf("Successfully destroyed GPU instance ID %2d from GPU %2d\n", inst.number, i)
	}
	setInstances(p.Sys, c, nil)
	p.Sys.RecordChange(fmt.Sprintf("MIG instances of GPU %d", i))
	return smiSuccessful
}

// migList is -lgip, -lgipp, -lgi and -lci.
func migList(p *machine.Proc, cards []Card, numbers []int, verb string) int {
	head := map[string][]string{
		"-lgip": {
			"+-------------------------------------------------------------------------------+",
			"| GPU instance profiles:                                                        |",
			"| GPU   Name               ID    Instances   Memory     P2P    SM    DEC   ENC  |",
			"|                                Free/Total   GiB              CE    JPEG  OFA  |",
			"|===============================================================================|",
		},
		"-lgi": {
			"+---------------------------------------------------------+",
			"| GPU instances:                                          |",
			"| GPU   Name               Profile  Instance   Placement  |",
			"|                            ID       ID       Start:Size |",
			"|=========================================================|",
		},
		"-lci": {
			"+--------------------------------------------------------------------+",
			"| Compute instances:                                                 |",
			"| GPU     GPU       Name             Profile   Instance   Placement  |",
			"|       Instance                       ID        ID       Start:Size |",
			"|         ID                                                         |",
			"|====================================================================|",
		},
	}[verb]
	var rows []string
	for _, i := range numbers {
		rows = append(rows, migRows(cards[i], i, verb)...)
	}
	if len(rows) == 0 {
		what := map[string]string{"-lgi": "GPU instances found: Not Found", "-lci": "compute instances found: Not Found"}[verb]
		if what == "" {
			what = "MIG-supported devices found."
		}
		p.Printf("No %s\n", what)
		return nvmlNotFound
	}
	for _, line := range append(head, rows...) {
		p.Printf("%s\n", line)
	}
	return smiSuccessful
}

func migRows(c Card, i int, verb string) (rows []string) {
	switch verb {
	case "-lgip":
		for _, f := range c.profiles() {
			rows = append(rows,
				fmt.Sprintf("| %3d  MIG %-14s %3d     %d/%d        %-11.2fNo     %-7d%-6d0   |", i, f.name, f.id, c.free(f), f.most, f.gib, f.sms, c.engines(f)),
				fmt.Sprintf("|%63s%-6d%-6d%d   |", "", f.copies(), c.engines(f), map[bool]int{true: 1}[f.special]), "+"+strings.Repeat("-", 79)+"+")
		}
	case "-lgipp":
		for _, f := range c.profiles() {
			starts, word := make([]string, len(f.starts)), "Placements"
			for n, s := range f.starts {
				starts[n] = strconv.Itoa(s)
			}
			if len(starts) == 1 {
				word = "Placement "
			}
			rows = append(rows, fmt.Sprintf("GPU %2d Profile ID %2d %s: {%s}:%d", i, f.id, word, strings.Join(starts, ","), f.size))
		}
	case "-lgi":
		for _, inst := range c.instances {
			rows = append(rows, fmt.Sprintf("| %3d  MIG %-16s %3d      %3d          %d:%d     |", i, inst.name, inst.id, inst.number, inst.start, inst.size), "+"+strings.Repeat("-", 57)+"+")
		}
	case "-lci":
		for _, inst := range c.usable() {
			rows = append(rows, fmt.Sprintf("| %3d     %3d       MIG %-14s %4d         0          0:%s     |", i, inst.number, inst.name, 0, inst.name[:1]), "+"+strings.Repeat("-", 68)+"+")
		}
	}
	return rows
}

// free is how many instances of a profile still fit.
func (c Card) free(f profile) (n int) {
	if !c.mig {
		return f.most
	}
	all := slices.Clone(c.instances)
	for {
		made, ok := c.make(all, f, -1)
		if !ok {
			return n
		}
		all, n = append(all, made), n+1
	}
}
