"""Mistakes of the user, as opposed to bugs."""


class UserError(Exception):
    """A mistake that the user can mend; its message is the one line that is shown.

    The line names the file, the key or line, what was found, and what would be right.
    Anything else that is raised is a bug and keeps its traceback.
    """
