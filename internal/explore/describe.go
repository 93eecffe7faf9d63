package explore

import (
	"fmt"
	"strings"
)

// Describe says in words what may go wrong in a configuration.
func (c *Config) Describe() string {
	var all []string
	for f := range faults {
		switch n := c.Faults[f]; n {
		case 0:
		case 1:
			all = append(all, f.String())
		case Unlimited:
			all = append(all, f.String()+" any number of times")
		default:
			all = append(all, fmt.Sprintf("%d × %s", n, f))
		}
	}
	for _, m := range c.Members {
		if m.Joins {
			all = append(all, "a member joins at any time")
		}
	}
	if c.Begin {
		all = append(all, "from an empty store")
	}
	return strings.Join(all, ", ")
}
