package fault

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/guest"
)

func TestRulesAreLinesOfWords(t *testing.T) {
	body := ""
	for text, want := range map[string]Rule{
		`POST /nodes/*/qemu/*/clone 500 "got timeout" times=2`: {Method: "POST", Path: `/nodes/[^/]+/qemu/[^/]+/clone`, Status: 500, Message: "got timeout", Times: 2},
		`PUT /nodes/pve1/qemu/101/config drop after`:           {Method: "PUT", Path: `/nodes/pve1/qemu/101/config`, Drop: true, After: true},
		`mutating ** delay=40s skip=3`:                         {Mutating: true, Delay: 40 * time.Second, Skip: 3},
		`* /nodes/** data="null" times=all`:                    {Path: `/nodes/.*`, Data: json.RawMessage("null"), Times: -1},
		`GET ~"/nodes/(a|b)/status" 596 body=""`:               {Method: "GET", Path: `/nodes/(a|b)/status`, Status: 596, Body: &body},
		`POST ** task="unexpected status" task-delay=1m0s`:     {Method: "POST", TaskError: Killed, TaskDelay: time.Minute},
		`POST **/status/start guest=NeverBoots,SSHRefuses`:     {Method: "POST", Path: `.*/status/start`, Guest: &guest.Faults{NeverBoots: true, SSHRefuses: true}},
		`PUT /pools 400 "Parameter verification failed." error.vms="no \"such\" VM" warnings=1`: {Method: "PUT", Path: "/pools", Status: 400,
			Message: "Parameter verification failed.", Errors: map[string]string{"vms": `no "such" VM`}, TaskWarnings: 1},
	} {
		got, err := ParseRule(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
		assert.Equal(t, text, got.String(), "and back")
	}
}

func TestARuleThatSaysNothingIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                                `fault "": write a method, a path and what happens`,
		"POST /x":                         "write a method, a path and what happens",
		"PATCH /x drop":                   `"PATCH" is not a method`,
		"POST x drop":                     `"x" is not a path`,
		"POST ~( drop":                    "missing closing )",
		"POST /x times=2":                 "what is to happen?",
		"POST /x drop 500":                "only one of drop, a status and data",
		`POST /x "text"`:                  "a text needs a status",
		"POST /x delay=2s after":          "after says that the work is done",
		"POST /x dorp":                    `"dorp" means nothing here`,
		"POST /x 42":                      `"42" means nothing here`,
		`POST /x 500 "open`:               "a quote is not closed",
		"POST /x drop tiems=2":            "there is no tiems=: write one of ",
		"POST /x drop times=0":            "write a number from 1",
		"POST /x delay=soon":              "write a time such as 2s",
		"POST /x data={":                  "is not JSON",
		"POST /x guest=Sulks":             "there are AgentNeverAnswers, ",
		"POST /x drop zzzzzzzzzzzzzzzz=1": "there is no zzzzzzzzzzzzzzzz=",
	} {
		_, err := ParseRule(text)
		assert.ErrorContains(t, err, want, text)
	}
}

func FuzzParseRule(f *testing.F) {
	f.Add(`POST /nodes/*/qemu/*/clone 500 "got timeout" times=2 error.x="y" body="z" after`)
	f.Add(`* ~"a b\"c" data="[1]" task="\n" guest=CUDAFails delay=1ns skip=1`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRule(text)
		if err != nil {
			return
		}
		again, err := ParseRule(r.String())
		require.NoError(t, err, r.String())
		if r.Times == 1 {
			r.Times = 0
		}
		assert.Equal(t, r, again, "%s\n%s", text, r.String())
	})
}
