// Command jupyterhub is what a program that writes the values of a hub's chart has of ours: TestWeight builds it.
package main

import (
	"fmt"

	"github.com/cps-gpu/homelab/jupyterhub"
)

func main() { fmt.Println(jupyterhub.Hub{}.Values()) }
