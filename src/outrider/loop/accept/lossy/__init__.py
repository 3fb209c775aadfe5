"""Rules that change the target's law. None runs unless a user names it and consents to the loss."""
