"""The program for spark-submit: `tidegate pipeline`, with the same arguments."""

from tidegate_pipeline.commands.command import app

if __name__ == "__main__":
    app()
