package drawing

// Move shows how a partition goes from one owner to the next: stop, acknowledge,
// start. It has no scale, since how long it takes is up to the message in hand.
func Move() string {
	c := newCanvas(880, 352, "A hand-over: the plan revokes a partition, its owner finishes the message in hand and acknowledges, and only then the plan grants it to the next owner")
	const (
		plan, c1, c2, q3            = 92.0, 164.0, 236.0, 290.0
		revoked, done, granted, end = 190.0, 450.0, 660.0, 850.0
	)
	c.text("bold", left, 24, 34, "A hand-over of q3 from c1 to c2")
	c.text("small soft", left, 24, 54, "every arrow waits for the one before it; the time between 1 and 3 is the message in hand")
	for _, l := range []struct {
		y          float64
		name, what string
	}{{plan, "the plan", "by the leader"}, {c1, "c1", "owner, token 4"}, {c2, "c2", "next owner"}} {
		c.text("bold", left, 24, l.y, l.name)
		c.text("small soft", left, 24, l.y+16, l.what)
		c.line("rule", 130, l.y, end, l.y)
	}
	step := func(n string, x, y float64) {
		c.dot("box", x, y, 10)
		c.text("small bold", middle, x, y+4, n)
	}
	c.arrow(revoked, plan, revoked, c1-13)
	c.text("small", left, revoked+10, plan+26, "stop q3: REVOKING, for c2")
	c.rect("a", 130, c1-13, done-130, 26, 4)
	c.text("on small", left, revoked+38, c1+4, "finishes the message, settles it")
	c.arrow(done, c1-13, done, plan+12)
	c.text("small", left, done+10, plan+26, "ack: c1 runs q3 no more")
	c.arrow(granted, plan, granted, c2-13)
	c.text("small", left, granted+10, plan+26, "start q3: OWNED, token 5")
	c.rect("b", granted, c2-13, end-granted, 26, 4)
	c.text("on small", middle, (granted+end)/2, c2+4, "starts")
	step("1", revoked, plan)
	step("2", revoked+20, c1)
	step("3", done, plan)
	step("4", granted, plan)
	c.text("bold", left, 24, q3+17, "q3")
	c.rect("a", 130, q3, done-130, 26, 4)
	c.text("on small", middle, (130+done)/2, q3+17, "c1 acts, token 4")
	c.rect("none", done, q3, granted-done, 26, 4)
	c.text("small", middle, (done+granted)/2, q3+17, "nobody: round trips to the store")
	c.rect("b", granted, q3, end-granted, 26, 4)
	c.text("on small", middle, (granted+end)/2, q3+17, "c2, token 5")
	return c.String()
}
