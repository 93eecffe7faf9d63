// Package rotaactive consumes the queues of an ActiveMQ broker, by STOMP or by AMQP 1.0.
//
// What it does not promise: ActiveMQ gives a queue to one exclusive consumer at a time,
// and notices the end of a frozen one only when its heart-beats are missing. Until then
// the next owner waits. A consumer of another application that is not exclusive takes
// messages from the queue before the owner does, and no client can prevent that.
//
// A URL says which broker and which queues:
//
//	stomp://HOST:61613?queues=orders.{0..63}
//	amqp10://HOST:5672?queues=orders.{0..63}
//
// docs/sources/activemq.md lists its parameters. A Source connects when it is first used.
package rotaactive
